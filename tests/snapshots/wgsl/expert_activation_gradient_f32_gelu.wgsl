@group(0) @binding(3) var<storage, read_write> v13: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(4) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn expert_activation_gradient_f32_gelu(@builtin(workgroup_id) v267: vec3<u32>, @builtin(num_workgroups) v269: vec3<u32>, @builtin(local_invocation_index) v276: u32) {
let v322 = &v13;
let v323 = &v9;
let v324 = &v5;
let v325 = &v1;
let v98 = info_var.static_meta[1];
let v17 = info_var.scalars_usize[0];
let v18 = info_var.scalars_usize[1];
let v268 = v267[2];
let v176 = u32(v268);
let v270 = v269[1];
let v178 = u32(v270);
let v179 = v176 * v178;
let v271 = v269[0];
let v181 = u32(v271);
let v182 = v179 * v181;
let v272 = v267[1];
let v184 = u32(v272);
let v187 = v184 * v181;
let v188 = v182 + v187;
let v274 = v267[0];
let v190 = u32(v274);
let v191 = v188 + v190;
let v302 = u32(64);
let v194 = v191 * v302;
let v277 = v276;
let v196 = u32(v277);
let v197 = v194 + v196;
let v21 = v197 < v98;
if v21 {
let v23 = v197 / v18;
let v24 = v23 * v18;
let v28 = v197 % v18;
let v29 = v24 + v28;
let v33 = &(*v323)[v17];
let v34 = *v33;
let v35 = u32(v34);
let v36 = v23 < v35;
if v36 {
let v41 = &(*v324)[v197];
let v42 = *v41;
let v46 = &(*v325)[v29];
let v47 = *v46;
let v48 = f32(0.0);
let v49 = vec4<f32>(v48);
let v50 = f32(1.0);
let v51 = vec4<f32>(v50);
let v52 = f32(0.7071067690849304);
let v53 = vec4<f32>(v52);
let v54 = f32(0.5);
let v55 = vec4<f32>(v54);
let v56 = v55 * v47;
let v57 = v47 * v53;
let v101 = abs(v57);
let v102 = f32(0.32759109139442444);
let v103 = vec4<f32>(v102);
let v104 = f32(0.2548295855522156);
let v105 = vec4<f32>(v104);
let v106 = f32(-0.2844967544078827);
let v107 = vec4<f32>(v106);
let v108 = f32(1.4214136600494385);
let v109 = vec4<f32>(v108);
let v110 = f32(-1.4531519412994385);
let v111 = vec4<f32>(v110);
let v112 = f32(1.0614054203033447);
let v113 = vec4<f32>(v112);
let v307 = fma(v103, v101, v51);
let v118 = v51 / v307;
let v308 = fma(v113, v118, v111);
let v309 = fma(v308, v118, v109);
let v310 = fma(v309, v118, v107);
let v311 = fma(v310, v118, v105);
let v127 = v311 * v118;
let v128 = -v101;
let v129 = v128 * v101;
let v130 = exp(v129);
let v312 = -v127;
let v313 = fma(v312, v130, v51);
let v135 = v57 < v49;
let v136 = -v313;
let v137 = select(v313, v136, v135);
let v59 = v51 + v137;
let v69 = f32(0.3989422917366028);
let v70 = vec4<f32>(v69);
let v75 = v47 * v70;
let v77 = v56 * v47;
let v78 = -v77;
let v79 = exp(v78);
let v80 = v75 * v79;
let v321 = fma(v55, v59, v80);
let v82 = v42 * v321;
let v86 = &(*v322)[v29];
*v86 = v82;

} else {
let v87 = f32(0.0);
let v88 = vec4<f32>(v87);
let v95 = &(*v322)[v29];
*v95 = v88;

}

}
return;

}
