@group(0) @binding(5) var<storage, read_write> v21: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> v17: array<f32>;
@group(0) @binding(3) var<storage, read> v13: array<f32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 2>, scalars_f32: array<f32, 2>, static_meta: array<u32, 6> }
@group(0) @binding(6) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn route_backward_weights_sigmoid(@builtin(workgroup_id) v267: vec3<u32>, @builtin(num_workgroups) v269: vec3<u32>, @builtin(local_invocation_index) v276: u32) {
let v315 = &v21;
let v316 = &v17;
let v317 = &v13;
let v318 = &v9;
let v319 = &v5;
let v320 = &v1;
let v3 = u32(0);
let v145 = info_var.static_meta[5];
let v25 = info_var.scalars_usize[0];
let v26 = info_var.scalars_usize[1];
let v28 = info_var.scalars_f32[1];
let v268 = v267[2];
let v153 = u32(v268);
let v270 = v269[1];
let v155 = u32(v270);
let v156 = v153 * v155;
let v271 = v269[0];
let v158 = u32(v271);
let v159 = v156 * v158;
let v272 = v267[1];
let v161 = u32(v272);
let v164 = v161 * v158;
let v165 = v159 + v164;
let v274 = v267[0];
let v167 = u32(v274);
let v168 = v165 + v167;
let v310 = u32(64);
let v171 = v168 * v310;
let v277 = v276;
let v173 = u32(v277);
let v174 = v171 + v173;
let v31 = v174 < v145;
if v31 {
let v33 = v174 / v25;
let v34 = v33 * v26;
let v36 = v174 % v25;
let v37 = u32(4);
let v38 = v36 * v37;
let v39 = f32(0.0);
let v40 = vec4<f32>(v39);
let v41 = u32(0);
let v42 = vec4<u32>(v41);
var<function> v146_store: vec4<u32>;
let v146 = &v146_store;
*v146 = v42;
var<function> v147_store: vec4<u32>;
let v147 = &v147_store;
let v45 = *v146;
*v147 = v45;
let v46 = *v147;
let v48 = vec4<u32>(v41, v46[1], v46[2], v46[3]);
*v147 = v48;
let v49 = *v147;
let v50 = u32(1);
let v51 = vec4<u32>(v49[0], v50, v49[2], v49[3]);
*v147 = v51;
let v52 = *v147;
let v53 = u32(2);
let v54 = vec4<u32>(v52[0], v52[1], v53, v52[3]);
*v147 = v54;
let v55 = *v147;
let v56 = u32(3);
let v57 = vec4<u32>(v55[0], v55[1], v55[2], v56);
*v147 = v57;
let v58 = u32(v38);
let v59 = vec4<u32>(v58);
let v60 = *v147;
let v61 = v60 + v59;
var<function> v148_store: f32;
let v148 = &v148_store;
*v148 = v39;
var<function> v149_store: vec4<f32>;
let v149 = &v149_store;
*v149 = v40;
var<function> v150_store: vec4<f32>;
let v150 = &v150_store;
*v150 = v40;
let v68 = u32(1);
for(var v69: u32 = v3; v69 < v26; v69 += v68) {
let v71 = v34 + v69;
let v75 = &(*v318)[v71];
let v76 = *v75;
let v78 = v25 * v37;
let v79 = u32(v78);
let v80 = v76 < v79;
if v80 {
let v81 = vec4<u32>(v76);
let v82 = v61 == v81;
let v87 = &(*v317)[v71];
let v88 = *v87;
let v93 = &(*v316)[v71];
let v94 = *v93;
let v95 = *v148;
let v96 = fma(v88, v94, v95);
*v148 = v96;
let v97 = vec4<f32>(v88);
let v98 = *v149;
let v99 = select(v98, v97, v82);
*v149 = v99;
let v100 = vec4<f32>(v94);
let v101 = *v150;
let v102 = select(v101, v100, v82);
*v150 = v102;

}

}
let v107 = &(*v320)[v174];
let v108 = *v107;
let v109 = *v148;
let v110 = v109 * v28;
let v111 = vec4<f32>(v110);
let v112 = *v150;
let v113 = v112 - v111;
let v114 = -v108;
let v115 = f32(1.0);
let v116 = vec4<f32>(v115);
let v117 = abs(v114);
let v118 = -v117;
let v119 = exp(v118);
let v122 = v114 < v40;
let v123 = select(v116, v119, v122);
let v124 = v116 + v119;
let v125 = v123 / v124;
let v126 = *v149;
let v127 = v126 * v125;
let v128 = v127 * v113;
let v132 = v126 == v40;
let v133 = select(v128, v40, v132);
let v138 = &(*v315)[v174];
*v138 = v133;

}
return;

}
