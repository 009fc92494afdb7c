@group(0) @binding(5) var<storage, read_write> v21: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> v17: array<f32>;
@group(0) @binding(3) var<storage, read> v13: array<f32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 2>, scalars_f32: array<f32, 2>, static_meta: array<u32, 6> }
@group(0) @binding(6) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn route_backward_weights_sigmoid_raw(@builtin(workgroup_id) v260: vec3<u32>, @builtin(num_workgroups) v262: vec3<u32>, @builtin(local_invocation_index) v269: u32) {
let v308 = &v21;
let v309 = &v17;
let v310 = &v13;
let v311 = &v9;
let v312 = &v5;
let v313 = &v1;
let v3 = u32(0);
let v138 = info_var.static_meta[5];
let v25 = info_var.scalars_usize[0];
let v26 = info_var.scalars_usize[1];
let v27 = info_var.scalars_f32[0];
let v261 = v260[2];
let v146 = u32(v261);
let v263 = v262[1];
let v148 = u32(v263);
let v149 = v146 * v148;
let v264 = v262[0];
let v151 = u32(v264);
let v152 = v149 * v151;
let v265 = v260[1];
let v154 = u32(v265);
let v157 = v154 * v151;
let v158 = v152 + v157;
let v267 = v260[0];
let v160 = u32(v267);
let v161 = v158 + v160;
let v303 = u32(64);
let v164 = v161 * v303;
let v270 = v269;
let v166 = u32(v270);
let v167 = v164 + v166;
let v31 = v167 < v138;
if v31 {
let v33 = v167 / v25;
let v34 = v33 * v26;
let v36 = v167 % v25;
let v37 = u32(4);
let v38 = v36 * v37;
let v39 = f32(0.0);
let v40 = vec4<f32>(v39);
let v41 = u32(0);
let v42 = vec4<u32>(v41);
var<function> v139_store: vec4<u32>;
let v139 = &v139_store;
*v139 = v42;
var<function> v140_store: vec4<u32>;
let v140 = &v140_store;
let v45 = *v139;
*v140 = v45;
let v46 = *v140;
let v48 = vec4<u32>(v41, v46[1], v46[2], v46[3]);
*v140 = v48;
let v49 = *v140;
let v50 = u32(1);
let v51 = vec4<u32>(v49[0], v50, v49[2], v49[3]);
*v140 = v51;
let v52 = *v140;
let v53 = u32(2);
let v54 = vec4<u32>(v52[0], v52[1], v53, v52[3]);
*v140 = v54;
let v55 = *v140;
let v56 = u32(3);
let v57 = vec4<u32>(v55[0], v55[1], v55[2], v56);
*v140 = v57;
let v58 = u32(v38);
let v59 = vec4<u32>(v58);
let v60 = *v140;
let v61 = v60 + v59;
var<function> v141_store: f32;
let v141 = &v141_store;
*v141 = v39;
var<function> v142_store: vec4<f32>;
let v142 = &v142_store;
*v142 = v40;
var<function> v143_store: vec4<f32>;
let v143 = &v143_store;
*v143 = v40;
let v68 = u32(1);
for(var v69: u32 = v3; v69 < v26; v69 += v68) {
let v71 = v34 + v69;
let v75 = &(*v311)[v71];
let v76 = *v75;
let v78 = v25 * v37;
let v79 = u32(v78);
let v80 = v76 < v79;
if v80 {
let v81 = vec4<u32>(v76);
let v82 = v61 == v81;
let v87 = &(*v310)[v71];
let v88 = *v87;
let v93 = &(*v309)[v71];
let v94 = *v93;
let v95 = *v141;
let v96 = fma(v88, v94, v95);
*v141 = v96;
let v97 = vec4<f32>(v88);
let v98 = *v142;
let v99 = select(v98, v97, v82);
*v142 = v99;
let v100 = vec4<f32>(v94);
let v101 = *v143;
let v102 = select(v101, v100, v82);
*v143 = v102;

}

}
let v107 = &(*v313)[v167];
let v108 = *v107;
let v109 = vec4<f32>(v27);
let v110 = f32(1.0);
let v111 = vec4<f32>(v110);
let v112 = abs(v108);
let v113 = -v112;
let v114 = exp(v113);
let v115 = v111 + v114;
let v117 = v115 * v115;
let v118 = v114 / v117;
let v119 = v109 * v118;
let v120 = *v143;
let v121 = v119 * v120;
let v125 = v120 == v40;
let v126 = select(v121, v40, v125);
let v131 = &(*v308)[v167];
*v131 = v126;

}
return;

}
