@group(0) @binding(5) var<storage, read_write> v21: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> v17: array<f32>;
@group(0) @binding(3) var<storage, read> v13: array<f32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 2>, scalars_f32: array<f32, 2>, static_meta: array<u32, 6> }
@group(0) @binding(6) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn route_backward_weights_softmax(@builtin(workgroup_id) v254: vec3<u32>, @builtin(num_workgroups) v256: vec3<u32>, @builtin(local_invocation_index) v263: u32) {
let v302 = &v21;
let v303 = &v17;
let v304 = &v13;
let v305 = &v9;
let v306 = &v5;
let v307 = &v1;
let v3 = u32(0);
let v132 = info_var.static_meta[5];
let v25 = info_var.scalars_usize[0];
let v26 = info_var.scalars_usize[1];
let v28 = info_var.scalars_f32[1];
let v255 = v254[2];
let v140 = u32(v255);
let v257 = v256[1];
let v142 = u32(v257);
let v143 = v140 * v142;
let v258 = v256[0];
let v145 = u32(v258);
let v146 = v143 * v145;
let v259 = v254[1];
let v148 = u32(v259);
let v151 = v148 * v145;
let v152 = v146 + v151;
let v261 = v254[0];
let v154 = u32(v261);
let v155 = v152 + v154;
let v297 = u32(64);
let v158 = v155 * v297;
let v264 = v263;
let v160 = u32(v264);
let v161 = v158 + v160;
let v31 = v161 < v132;
if v31 {
let v33 = v161 / v25;
let v34 = v33 * v26;
let v36 = v161 % v25;
let v37 = u32(4);
let v38 = v36 * v37;
let v39 = f32(0.0);
let v40 = vec4<f32>(v39);
let v41 = u32(0);
let v42 = vec4<u32>(v41);
var<function> v133_store: vec4<u32>;
let v133 = &v133_store;
*v133 = v42;
var<function> v134_store: vec4<u32>;
let v134 = &v134_store;
let v45 = *v133;
*v134 = v45;
let v46 = *v134;
let v48 = vec4<u32>(v41, v46[1], v46[2], v46[3]);
*v134 = v48;
let v49 = *v134;
let v50 = u32(1);
let v51 = vec4<u32>(v49[0], v50, v49[2], v49[3]);
*v134 = v51;
let v52 = *v134;
let v53 = u32(2);
let v54 = vec4<u32>(v52[0], v52[1], v53, v52[3]);
*v134 = v54;
let v55 = *v134;
let v56 = u32(3);
let v57 = vec4<u32>(v55[0], v55[1], v55[2], v56);
*v134 = v57;
let v58 = u32(v38);
let v59 = vec4<u32>(v58);
let v60 = *v134;
let v61 = v60 + v59;
var<function> v135_store: f32;
let v135 = &v135_store;
*v135 = v39;
var<function> v136_store: vec4<f32>;
let v136 = &v136_store;
*v136 = v40;
var<function> v137_store: vec4<f32>;
let v137 = &v137_store;
*v137 = v40;
let v68 = u32(1);
for(var v69: u32 = v3; v69 < v26; v69 += v68) {
let v71 = v34 + v69;
let v75 = &(*v305)[v71];
let v76 = *v75;
let v78 = v25 * v37;
let v79 = u32(v78);
let v80 = v76 < v79;
if v80 {
let v81 = vec4<u32>(v76);
let v82 = v61 == v81;
let v87 = &(*v304)[v71];
let v88 = *v87;
let v93 = &(*v303)[v71];
let v94 = *v93;
let v95 = *v135;
let v96 = fma(v88, v94, v95);
*v135 = v96;
let v97 = vec4<f32>(v88);
let v98 = *v136;
let v99 = select(v98, v97, v82);
*v136 = v99;
let v100 = vec4<f32>(v94);
let v101 = *v137;
let v102 = select(v101, v100, v82);
*v137 = v102;

}

}
let v109 = *v135;
let v110 = v109 * v28;
let v111 = vec4<f32>(v110);
let v112 = *v137;
let v113 = v112 - v111;
let v114 = *v136;
let v115 = v114 * v113;
let v119 = v114 == v40;
let v120 = select(v115, v40, v119);
let v125 = &(*v302)[v161];
*v125 = v120;

}
return;

}
